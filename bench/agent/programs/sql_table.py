from servers.postgres import execute_sql

rows = execute_sql(sql="SELECT id, name, country FROM customers ORDER BY id")
for row in rows:
    print(f"{row['id']:>3} {row['name']:<20} {row['country']}")
print(len(rows), "customers")
