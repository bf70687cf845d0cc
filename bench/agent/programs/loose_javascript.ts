const { execute_sql } = await import('/workspace/servers/postgres/index.js');

const byCountry = {};
for (const row of await execute_sql({ sql: 'select * from customers' })) {
  byCountry[row.country] = (byCountry[row.country] || 0) + 1;
}
const summary = {};
summary.countries = Object.keys(byCountry).length;
summary.text = JSON.stringify(byCountry);
console.log(summary.countries, summary.text);
