import { list_directory, get_file_info } from '/workspace/servers/filesystem/index.js';

async function main(): Promise<void> {
  try {
    const listing = await list_directory({ path: '/workspace' });
    const names = listing.content.split('\n').filter((line) => line.startsWith('[FILE]')).map((line) => line.slice(7));
    for (const name of names.slice(0, 2)) {
      const info = await get_file_info({ path: `/workspace/${name}` });
      console.log(name, info.content.match(/size: (\d+)/)?.[1]);
    }
  } catch (error) {
    console.error('Failed:', error instanceof Error ? error.message : error);
    process.exit(1);
  }
}
await main();
