# OpenCode, by chat completions through the AI SDK. `bash opencode.sh TASK`.
export OPENCODE_DISABLE_MODELS_FETCH=1
cat > opencode.json <<END
{
  "autoupdate": false,
  "permission": "allow",
  "provider": {
    "policy": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY" },
      "models": { "$OPENAI_MODEL": {} }
    }
  }
}
END
# The program of the platform's package, the one for older processors if there are two: no install script is needed.
for opencode in /opt/tools/node_modules/opencode-linux-*/bin/opencode; do :; done
exec "$opencode" run --model "policy/$OPENAI_MODEL" "$1" </dev/null
