import { listServers, searchTools } from '/workspace/servers/discovery.js';

const servers = await listServers();
console.log(servers.join(' '));
const found = await searchTools('read a file');
console.log(found.length > 0);
