/** Where things are in the console. Pure functions. */

export const SKILLS = 'skills'; // stands where tools have the name of their server

const part = encodeURIComponent;

export const skillsPath = '/console/skills';
/** @param {string} name @param {string} [version] without one, the version that one would use */
export const skillPath = (name, version) => `${skillsPath}/${part(name)}${version ? `?version=${part(version)}` : ''}`;
export const toolPath = (server, tool) => (server === SKILLS ? skillPath(tool) : `/console/catalogue/${part(server)}/${part(tool)}`);
export const executionPath = (id) => `/console/executions/${part(id)}`;
export const tryPath = (server, tool, language) => `/console/try?server=${part(server)}&tool=${part(tool)}&language=${part(language)}`;
