// https://github.com/rhinobase/hono-rate-limiter: `limit` requests in `windowMs`, from the first one on.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import { say, settings } from "./listen.js";

const app = new Hono();
app.use(rateLimiter({ keyGenerator: () => "all", ...settings }));
app.get("/", (context) => context.text("ok"));
serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => say(port));
