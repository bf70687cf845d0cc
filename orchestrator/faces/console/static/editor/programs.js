/** Programs to start from. Pure functions. */

const STARTERS = {
  typescript: `import { listServers, listTools } from '/workspace/servers/discovery.js';

// Type the name of a tool to import and call it.
for (const server of await listServers()) {
  const tools = await listTools(server);
  console.log(server, tools.length);
}
`,
  python: `from servers.discovery import list_servers, list_tools

# Type the name of a tool to import and call it.
for server in list_servers():
    tools = list_tools(server)
    print(server, len(tools))
`,
};

export const starter = (language) => STARTERS[language];

/** The language that an address or an execution names, if it is one. */
export const languageOf = (name) => (Object.hasOwn(STARTERS, name ?? '') ? name : null);

/** The example of GET /tools/info as a program that shows what it got. */
export function exampleProgram(info, language) {
  const {example} = info[language];
  const shown = language === 'python' ? 'print(result)' : 'console.log(result);';
  return `${example.trimEnd()}\n${shown}\n`;
}
