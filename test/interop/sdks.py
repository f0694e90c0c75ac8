"""OpenAI's and Anthropic's Python clients, unchanged, against `longhaul serve`: plain, streamed, tools, several turns.

`python test/interop/sdks.py BASE_URL MODEL`; needs `pip install openai==3.57.0 anthropic==2.13.0`.
"""

import sys

import anthropic
import openai

base, model = sys.argv[1:3]
schema = {"type": "object", "properties": {"query": {"type": "string"}}}
question = "test_total fails: the sum is wrong. Find the bug."


def responses() -> None:
    client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
    asked = {"model": model, "max_output_tokens": 16, "temperature": 0}
    whole = client.responses.create(input="Hello", **asked)
    with client.responses.stream(input="Hello", **asked) as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == whole.output_text, (final, whole)
    assert types[0] == "response.created" and types[-1] in ("response.completed", "response.incomplete")
    client.responses.create(input="And?", previous_response_id=whole.id, **asked)
    tool = {"type": "function", "name": "search", "description": "finds text", "parameters": schema, "strict": False}
    asked.update(tools=[tool], tool_choice={"type": "function", "name": "search"}, max_output_tokens=60)
    called = client.responses.create(input=question, parallel_tool_calls=False, **asked)
    calls = [item for item in called.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["search"], called.output
    output = {"type": "function_call_output", "call_id": calls[0].call_id, "output": "nothing found"}
    asked.update(tool_choice="auto")
    client.responses.create(input=[output], previous_response_id=called.id, **asked)
    client.responses.create(input=[{"role": "user", "content": question}, *called.output, output], store=False, **asked)
    chat = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hello"}], max_completion_tokens=4,
        extra_body={"prompt_logprobs": 1},
    )
    assert chat.model_extra["prompt_logprobs"][0] is None
    echoed = client.completions.create(model=model, prompt="Hello", echo=True, max_tokens=0, logprobs=1)
    assert echoed.choices[0].text == "Hello" and echoed.choices[0].logprobs.token_logprobs[0] is None


def messages() -> None:
    client = anthropic.Anthropic(base_url=base.removesuffix("/v1"), api_key="none", max_retries=0)
    asked = {"model": model, "max_tokens": 60, "system": "Be short.", "extra_body": {"temperature": 0}}
    turns = [{"role": "user", "content": question}]
    whole = client.messages.create(messages=turns, **asked)
    with client.messages.stream(messages=turns, **asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "".join(block.text for block in whole.content if block.type == "text")
    assert final.stop_reason == whole.stop_reason
    counted = client.messages.count_tokens(model=model, system="Be short.", messages=turns)
    assert counted.input_tokens == whole.usage.input_tokens
    tool = {"name": "search", "description": "finds text", "input_schema": schema}
    choice = {"type": "tool", "name": "search", "disable_parallel_tool_use": True}
    used = client.messages.create(messages=turns, tools=[tool], tool_choice=choice, **asked)
    assert used.stop_reason == "tool_use", used
    result = {"type": "tool_result", "tool_use_id": used.content[-1].id, "content": "nothing found"}
    turns += [{"role": "assistant", "content": used.content}, {"role": "user", "content": [result]}]
    client.messages.create(messages=turns, tools=[tool], **asked)
    try:
        client.messages.create(messages=turns, **{**asked, "model": "other"})
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error.body
    else:
        raise AssertionError("another model was served")


responses()
messages()
print(f"openai {openai.__version__}, anthropic {anthropic.__version__}: unchanged against {base}")
