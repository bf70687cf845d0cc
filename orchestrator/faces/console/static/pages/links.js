/** Where things are in the console. Pure functions. */

const part = encodeURIComponent;

export const toolPath = (server, tool) => `/console/catalogue/${part(server)}/${part(tool)}`;
export const executionPath = (id) => `/console/executions/${part(id)}`;
export const tryPath = (server, tool, language) => `/console/try?server=${part(server)}&tool=${part(tool)}&language=${part(language)}`;
