"""Common Chinese words of tool descriptions in English, so that either language finds the other's tools."""

from __future__ import annotations

import re
from functools import cache

CHINESE_TO_ENGLISH = """
    获取 get, 查询 query, 搜索 search, 查找 find, 读取 read, 写入 write, 保存 save, 创建 create, 生成 generate,
    添加 add, 插入 insert, 删除 delete, 更新 update, 修改 edit, 转换 convert, 下载 download, 上传 upload, 发送 send,
    列出 list, 列表 list, 显示 show, 分析 analyze, 计算 calculate, 推荐 recommend, 检查 check, 比较 compare,
    执行 execute, 打开 open, 关闭 close, 翻译 translate, 总结 summarize, 摘要 summary, 信息 information,
    详情 detail, 详细 detail, 数据 data, 结果 result, 内容 content, 名称 name, 标题 title, 文件 file, 文件夹 folder,
    目录 directory, 路径 path, 文档 document, 表格 table, 幻灯片 slide, 演示文稿 presentation, 图片 image, 图像 image,
    照片 photo, 视频 video, 音频 audio, 音乐 music, 图表 chart, 网页 web page, 网站 website, 链接 link, 浏览器 browser,
    新闻 news, 资讯 news, 热点 trending, 热门 popular, 热搜 trending, 热榜 trending, 趋势 trend, 排行榜 ranking,
    榜单 ranking, 排名 rank, 话题 topic, 文章 article, 论文 paper, 图书 book, 书籍 book, 小说 novel, 阅读 read,
    电影 movie, 电视剧 tv, 游戏 game, 动画 animation, 娱乐 entertainment, 体育 sports, 科技 technology,
    技术 technology, 软件 software, 应用 app, 开发 development, 人工智能 ai, 互联网 internet, 创业 startup,
    商业 business, 投资 investment, 融资 funding, 财经 finance, 金融 finance, 经济 economy, 股票 stock, 价格 price,
    汇率 exchange rate, 货币 currency, 公司 company, 企业 company, 产品 product, 商品 product, 购物 shopping,
    优惠 discount deal, 消费 consumer, 评测 review, 评分 rating, 评论 comment, 教程 tutorial, 教育 education,
    健康 health, 政治 politics, 国际 international, 全球 global, 社会 society, 文化 culture, 历史 history,
    科学 science, 艺术 art, 苹果 apple, 手机 phone, 数码 digital, 菜谱 recipe, 食谱 recipe, 菜品 dish,
    食材 ingredient, 膳食 meal, 早餐 breakfast, 过敏 allergy, 人数 people, 天气 weather, 温度 temperature,
    时间 time, 日期 date, 日历 calendar, 农历 lunar, 公历 gregorian solar, 时区 timezone, 城市 city, 地址 address,
    位置 location, 地图 map, 路线 route, 坐标 coordinate, 火车 train, 列车 train, 车站 station, 车票 ticket,
    余票 ticket, 酒店 hotel, 航班 flight, 旅游 travel, 角色 character, 卡牌 card, 玩家 player, 用户 user,
    账号 account, 密码 password, 邮件 email, 消息 message, 任务 task, 项目 project, 代码 code, 数据库 database,
    服务器 server, 网络 network, 问题 question problem, 答案 answer, 语言 language, 中文 chinese, 英文 english,
    随机 random, 数字 number, 颜色 color, 字体 font, 大小 size, 格式 format, 模板 template, 版本 version,
    分类 category, 标签 tag, 关键词 keyword, 关键字 keyword, 当前 current, 最新 latest, 实时 realtime, 今日 today,
    每日 daily, 所有 all, 出生 birth, 八字 bazi
"""


def english_for(chunk: str) -> list[str]:
    """The English of the words that are known in a run of ideographs."""
    return [word for found in _known_words().findall(chunk) for word in _translations()[found]]


@cache
def _translations() -> dict[str, list[str]]:
    entries = (entry.split() for entry in CHINESE_TO_ENGLISH.split(","))
    return {chinese: english for chinese, *english in entries}


@cache
def _known_words() -> re.Pattern[str]:
    return re.compile("|".join(sorted(_translations(), key=len, reverse=True)))
