# aider, by chat completions through LiteLLM; it edits by text, and calls no tool. `bash aider.sh TASK`.
exec python3 -m aider --model "openai/$OPENAI_MODEL" --edit-format whole --yes-always --no-check-update \
  --no-analytics --no-show-model-warnings --no-gitignore --no-stream --no-auto-commits --no-detect-urls \
  --no-git --no-pretty --message "$1" product </dev/null
