(async () => {
  const { execute_query } = await import('/workspace/servers/timescaledb/execute_query.js');
  const { upload_object } = await import('/workspace/servers/minio/upload_object.js');

  // Query database
  const result = await execute_query({
    query: "SELECT * FROM metrics WHERE timestamp > NOW() - INTERVAL '1 day'"
  });

  // Filter in execution environment (not in model context!)
  const critical = result.rows.filter(m => m.value > 100);

  // Upload to S3
  const csv = critical.map(r => Object.values(r).join(',')).join('\\n');
  await upload_object({
    bucket: 'exports',
    key: `export-${Date.now()}.csv`,
    content: csv
  });

  console.log(`Exported ${critical.length} critical metrics`);
})()
