"""The backend for TypeScript."""
