async def test_python_prints_and_completes(api):
    result = await api.python("print(2 + 2)")
    assert (result["outcome"], result["output"], result["exitCode"]) == ("completed", "4\n", 0)


async def test_typescript_prints_and_completes(api):
    result = await api.typescript("const n: number = 2; console.log(n + n)")
    assert (result["outcome"], result["output"], result["exitCode"]) == ("completed", "4\n", 0)
