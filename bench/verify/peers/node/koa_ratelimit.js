// https://github.com/koajs/ratelimit: `max` requests in `duration` ms, from the first one on.
import Koa from "koa";
import { createServer } from "node:http";
import ratelimit from "koa-ratelimit";
import { listen, settings } from "./listen.js";

const app = new Koa();
app.use(ratelimit({ driver: "memory", db: new Map(), ...settings }));
app.use((context) => {
  context.body = "ok";
});
listen(createServer(app.callback()));
