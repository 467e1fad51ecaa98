import json

import httpx2 as httpx  # replaced below
