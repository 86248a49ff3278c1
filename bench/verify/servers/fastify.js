// Fastify with @fastify/rate-limit: node fastify.js PACKAGES MAX WINDOW_MS
//
// `continueExceeding` renews the window with each request over the limit, as its README says:
// https://github.com/fastify/fastify-rate-limit#options
"use strict";
const [packages, max, timeWindow] = process.argv.slice(2);
const require_there = require("node:module").createRequire(`${packages}/`);
const app = require_there("fastify")();
app.register(require_there("@fastify/rate-limit"), { max: Number(max), timeWindow: Number(timeWindow), continueExceeding: true });
app.after(() => app.get("/", async () => "ok"));
app.listen({ host: "127.0.0.1", port: 0 }).then((url) => console.log(`listening on ${url}/`));
