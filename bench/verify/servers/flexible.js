// rate-limiter-flexible in memory: node flexible.js PACKAGES POINTS DURATION_S BLOCK_S
//
// `blockDuration` blocks a key from its first request over the limit:
// https://github.com/animir/node-rate-limiter-flexible/wiki/Options#blockduration
"use strict";
const [packages, points, duration, blockDuration] = process.argv.slice(2);
const require_there = require("node:module").createRequire(`${packages}/`);
const { RateLimiterMemory } = require_there("rate-limiter-flexible");
const limiter = new RateLimiterMemory({
  points: Number(points),
  duration: Number(duration),
  blockDuration: Number(blockDuration),
});
const server = require("node:http").createServer((request, response) => {
  const answer = (status) => () => response.writeHead(status).end();
  limiter.consume(request.socket.remoteAddress).then(answer(200), answer(429));
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/`));
