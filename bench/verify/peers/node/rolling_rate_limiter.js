// https://github.com/peterkhayes/rolling-rate-limiter: at most `maxInInterval` requests in any `interval` ms; those that are refused count.
import { createServer } from "node:http";
import { InMemoryRateLimiter } from "rolling-rate-limiter";
import { listen, settings } from "./listen.js";

const limiter = new InMemoryRateLimiter(settings);
listen(
  createServer(async (_, response) => {
    if (await limiter.limit("all")) response.statusCode = 429;
    response.end();
  }),
);
