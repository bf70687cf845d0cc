"""code-executor skills: functions that were proven once, and are kept to be used again."""

from orchestrator.commands.skills.command import skills_app

__all__ = ["skills_app"]
