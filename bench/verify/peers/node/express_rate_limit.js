// https://express-rate-limit.mintlify.app: `limit` requests in `windowMs`, which begins with the first one.
import express from "express";
import { createServer } from "node:http";
import { rateLimit } from "express-rate-limit";
import { listen, settings } from "./listen.js";

const app = express();
app.use(rateLimit({ standardHeaders: "draft-8", legacyHeaders: false, ...settings }));
app.get("/", (_, response) => response.send("ok"));
listen(createServer(app));
