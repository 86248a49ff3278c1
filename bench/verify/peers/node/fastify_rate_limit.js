// https://github.com/fastify/fastify-rate-limit: `max` requests in `timeWindow` ms, from the first one on. With `continueExceeding`, each
// request over the limit begins the window anew.
import fastify from "fastify";
import rateLimit from "@fastify/rate-limit";
import { say, settings } from "./listen.js";

const app = fastify();
await app.register(rateLimit, settings);
app.get("/", async () => "ok");
await app.listen({ port: 0, host: "127.0.0.1" });
say(app.server.address().port);
