// Finds servers and tools by the names under which they are imported.

import { isTypo } from './_arguments.js';
import { ask } from './_client.js';

export type SearchOptions = { server?: string; detail?: 'name' | 'description' | 'full'; limit?: number };
// Its fields depend on the detail that was asked for.
export type ToolSummary = { [key: string]: any };

type Entry = { name: string; tools: { [identifier: string]: string } };

/** The servers and tools that this execution may call, as identifiers with their own names. */
export class Directory {
  private readonly entries: Map<string, Entry>;

  constructor(entries: { [server: string]: Entry }) {
    this.entries = new Map(Object.entries(entries));
  }

  servers(): string[] {
    return [...this.entries.keys()];
  }

  tools(server?: string): string[] {
    if (server === undefined) return this.servers().flatMap((each) => this.tools(each).map((tool) => `${each}/${tool}`));
    const entry = this.entry(server);
    if (!entry) {
      const meant = this.servers().find((each) => isTypo(server, each));
      const question = meant === undefined ? '' : ` Did you mean '${meant}'?`;
      throw new Error(`There is no server '${server}'; there are: ${this.servers().join(', ')}.${question}`);
    }
    return Object.keys(entry.tools);
  }

  async search(query: string | string[], options: SearchOptions): Promise<ToolSummary[]> {
    const server = options.server === undefined ? {} : { server: this.serverName(options.server) };
    const found = await ask('/search', JSON.stringify({ query, ...options, ...server }), { server: '', tool: '' });
    return (Array.isArray(found) ? found : (found as { tools: ToolSummary[] }).tools) ?? [];
  }

  async info(server: string, tool: string): Promise<ToolSummary> {
    const tools = this.entry(server)?.tools ?? {};
    const toolName = (Object.hasOwn(tools, tool) && tools[tool]) || tool;
    const about = { server: this.serverName(server), tool: toolName };
    return (await ask('/info', JSON.stringify(about), about)) as ToolSummary;
  }

  /** Finds a server by its identifier or by its own name. */
  private entry(server: string): Entry | undefined {
    return this.entries.get(server) ?? [...this.entries.values()].find(({ name }) => name === server);
  }

  private serverName(server: string): string {
    // The gateway gets an unknown name as it is, and says what is wrong with it.
    return this.entry(server)?.name ?? server;
  }
}
