// https://github.com/animir/node-rate-limiter-flexible/wiki/Memory: `points` in `duration` seconds, from the first request on.
// With `blockDuration`, a key is refused for as long once it is over. Two settings: RateLimiterUnion. `burst`: BurstyRateLimiter.
import { createServer } from "node:http";
import { BurstyRateLimiter, RateLimiterMemory, RateLimiterUnion } from "rate-limiter-flexible";
import { listen, settings } from "./listen.js";

const { burst, union, ...first } = settings;
const memory = (options, keyPrefix) => new RateLimiterMemory({ keyPrefix, ...options });
let limiter = memory(first, "first");
if (burst) limiter = new BurstyRateLimiter(limiter, memory(burst, "burst"));
if (union) limiter = new RateLimiterUnion(limiter, memory(union, "union"));

listen(
  createServer((request, response) => {
    limiter.consume(request.socket.remoteAddress).then(
      () => response.end("ok"),
      (refused) => {
        const all = refused.msBeforeNext === undefined ? Object.values(refused) : [refused];
        const wait = Math.max(...all.map((one) => one.msBeforeNext)) / 1000;
        response.writeHead(429, { "Retry-After": Math.ceil(wait) }).end();
      },
    );
  }),
);
