# Qwen Code, by chat completions. `bash qwen_code.sh TASK`.
exec qwen --auth-type openai --yolo --prompt "$1" </dev/null
