// Preloaded into Azurite by devhost/azurite.py. The parent holds the other end of standard input; when it is gone,
// however it went, Azurite stops as on SIGTERM, which saves its data.
const fs = require("fs");
const net = require("net");

process.stdin.on("error", () => {});
process.stdin.on("close", () => {
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => process.exit(1), 5000).unref();
});
process.stdin.resume();
// Waiting for this must not be what keeps Azurite from ending by itself.
process.stdin.unref();

// Each server is started on port 0; this tells the parent which one it has got, a line each. Ports that the parent picked
// could be taken by somebody else before Azurite listens, and Azurite with --silent does not say where it does.
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...options) {
  this.once("listening", () => fs.writeSync(Number(process.env.DEVHOST_PORTS_FD), `${this.address().port}\n`));
  return listen.apply(this, options);
};
