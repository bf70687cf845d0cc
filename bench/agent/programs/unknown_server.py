from servers.filesystem import write_file
write_file(path="/workspace/begun.txt", content="begun")
from servers.postgress import execute_sql
print(execute_sql(sql="SELECT 1"))
