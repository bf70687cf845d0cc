// An agent of Vercel's `ai` that has our tools; on SIGUSR2 it gives up.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.ENVIRONMENT}/package.json`);
const { createMCPClient } = require("@ai-sdk/mcp");
const { createOpenAI } = require("@ai-sdk/openai");
const { generateText, isStepCount } = require("ai");

const openai = createOpenAI({ baseURL: `${process.env.MODEL_URL}/v1`, apiKey: "none" });
const headers = { Authorization: `Bearer ${process.env.CODE_EXECUTOR_KEY}` };
const client = await createMCPClient({ transport: { type: "http", url: process.env.MCP_URL, headers } });
try {
    const giveUp = new AbortController();
    process.once("SIGUSR2", () => giveUp.abort());
    const { text } = await generateText({
        model: process.env.DIALECT === "chat" ? openai.chat("gpt-5") : openai.responses("gpt-5"),
        tools: await client.tools(),
        stopWhen: isStepCount(20),
        prompt: "Run the program.",
        maxRetries: 0,
        abortSignal: giveUp.signal,
    });
    console.log(text);
} finally {
    await client.close();
}
