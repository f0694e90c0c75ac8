/**
 * The application of the tasks on a desktop, in Python with Tk. Its windows and what is in them have fixed places, so
 * that a solution is known, and it writes down what was done with them: the file is all that the grader reads.
 */

/** Written anew whenever something was done. */
export const STATE = '/work/state.json';

export const APPLICATION = String.raw`
import json, os, sys, tkinter as tk

kind, given = sys.argv[1], json.loads(sys.argv[2])
root = tk.Tk()


def write(**state):
    with open("${STATE}.new", "w") as file:
        json.dump(state, file)
    os.replace("${STATE}.new", "${STATE}")


def window(one, title, place):
    one.title(title)
    one.geometry(place)
    return one


def button(parent, label, x, y, command):
    tk.Button(parent, text=label, command=command).place(x=x, y=y, width=100, height=30)


if kind == "write":
    window(root, "Editor", "500x300+100+100")
    text = tk.Text(root)
    text.place(x=10, y=10, width=480, height=230)
    save = lambda *_: write(saved=text.get("1.0", "end-1c"))
    button(root, "Save", 10, 255, save)
    root.bind("<Control-s>", save)
elif kind == "form":
    window(root, "Settings", "300x300+200+150")
    ticks = []
    for i, label in enumerate(given["labels"]):
        value = tk.BooleanVar(root, label in given["ticked"])
        tk.Checkbutton(root, text=label, variable=value, anchor="w").place(x=20, y=20 + 45 * i, width=200, height=30)
        ticks.append((label, value))
    button(root, "OK", 20, 250, lambda: write(ok=[label for label, value in ticks if value.get()]))
    button(root, "Cancel", 140, 250, lambda: write(cancelled=True))
elif kind == "slider":
    window(root, "Volume", "460x160+150+200")
    scale = tk.Scale(root, from_=0, to=100, resolution=10, orient="horizontal", length=440, sliderlength=30, borderwidth=0,
                     highlightthickness=0, showvalue=True)
    scale.set(given["from"])
    scale.place(x=10, y=10)
    button(root, "Apply", 10, 110, lambda: write(applied=scale.get()))
else:
    window(root, "Notes", "500x300+100+100")
    note = tk.Text(root)
    note.place(x=10, y=10, width=480, height=230)
    button(root, "Done", 10, 255, lambda: write(dialog=done.get("dialog"), done=True))
    done = {"dialog": "open"}
    # The dialog comes above what is shown already.
    root.update()
    dialog = window(tk.Toplevel(root), "Update", "300x120+220+180")
    tk.Label(dialog, text=given["question"]).place(x=10, y=10, width=280, height=40)

    def close(how):
        done["dialog"] = how
        dialog.destroy()
        write(dialog=how)

    for i, label in enumerate(given["buttons"]):
        button(dialog, label, 20 + 140 * i, 70, lambda label=label: close(label))
    dialog.wait_visibility()
    dialog.lift()
    dialog.grab_set()
root.mainloop()
`;
