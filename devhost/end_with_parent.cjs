// Preloaded into Azurite by devhost/azurite.py. The parent holds the other end of standard input; when it is gone,
// however it went, Azurite stops as on SIGTERM, which saves its data.
process.stdin.on("error", () => {});
process.stdin.on("close", () => {
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => process.exit(1), 5000).unref();
});
process.stdin.resume();
// Waiting for this must not be what keeps Azurite from ending by itself.
process.stdin.unref();
