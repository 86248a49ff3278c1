// https://github.com/jhurliman/node-rate-limiter: TokenBucket, a bucket that refills continuously, on a clock of milliseconds.
import { createServer } from "node:http";
import { TokenBucket } from "limiter";
import { listen, settings } from "./listen.js";

const bucket = new TokenBucket(settings);
bucket.content = settings.bucketSize;
listen(
  createServer((_, response) => {
    if (!bucket.tryRemoveTokens(1)) response.statusCode = 429;
    response.end();
  }),
);
