from servers.postgres import execute_sql

def rows():
    return await execute_sql(sql="SELECT 1")

print(rows())
