# Codex, by the Responses API. `bash codex.sh TASK`.
mkdir -p "$HOME/.codex"
cat > "$HOME/.codex/config.toml" <<END
model = "$OPENAI_MODEL"
model_provider = "policy"
[model_providers.policy]
name = "policy"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
END
exec codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check "$1" </dev/null
