// Answers one prompt with Vercel's AI SDK (its default for OpenAI: /responses) and two tools of the shop.

import { openai } from "@ai-sdk/openai"; // it finds its address in OPENAI_BASE_URL
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const shop = process.env.SHOP_URL;
const item = z.string().describe("the item's name");

async function ask(path, options = {}) {
  try {
    const reply = await fetch(`${shop}${path}`, { ...options, signal: AbortSignal.timeout(5000) });
    return await reply.text();
  } catch (error) {
    return `error: ${error.message}`;
  }
}

const tools = {
  get_price: tool({
    description: "Get the price of an item in the shop.",
    inputSchema: z.object({ item }),
    execute: ({ item }) => ask(`/price?item=${encodeURIComponent(item)}`),
  }),
  order_item: tool({
    description: "Order an item of the shop.",
    inputSchema: z.object({ item, count: z.number().int() }),
    execute: (order) =>
      ask("/orders", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(order),
      }),
  }),
};

const { text } = await generateText({
  model: openai("gpt-5-mini"),
  prompt: process.argv[2],
  tools,
  stopWhen: stepCountIs(6),
  abortSignal: AbortSignal.timeout(60000),
});
console.log(text);
