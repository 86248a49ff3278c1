// Asks the door of RESP as ioredis does: ask_redis.js PORT PASSWORD. Prints what is answered, one line each.
const { Redis } = require("ioredis");

const [port, password] = process.argv.slice(2);
const client = (password) =>
    new Redis({ port: Number(port), password, connectionName: "shop", commandTimeout: 60000, retryStrategy: null });
const print = (value) => console.log(JSON.stringify(value));

(async () => {
    const shop = client(password);
    const hello = await shop.call("HELLO", "2");
    print({ server: hello[hello.indexOf("server") + 1], ping: await shop.ping() });
    print(await shop.call("CL.THROTTLE", "user:1", 2, 60, 60, 1));
    const asked = ["users", "users", "users", "nobody"].map((limit) => ["call", "FG.ASK", limit, "alice"]);
    const answers = await shop.pipeline(asked).exec();
    // redis-py does not show the kind of an error.
    print(answers.map(([error, answer]) => (error ? error.message.replace(/^ERR /, "") : answer.slice(0, 3))));
    shop.disconnect();
    const stranger = client("guess");
    // It tells an event of it, and refuses the command.
    stranger.on("error", () => {});
    const refused = await stranger.ping().catch((error) => error);
    print(refused.message.startsWith("NOAUTH") || refused.message.startsWith("WRONGPASS") ? "WRONGPASS" : refused.message);
    stranger.disconnect();
})();
