# Shared by the steps: writes 1 if the file has exactly this text, else 0.
check() { [ "$(cat "$1" 2>/dev/null)" = "$2" ] && echo 1 || echo 0; }
