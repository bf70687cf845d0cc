import io
import pandas as pd
from servers.filesystem import read_text_file

df = pd.read_csv(io.StringIO(read_text_file(path="/workspace/data.csv")["content"]))
print(df["amount"].sum(), df.shape[0], df.columns.tolist())
