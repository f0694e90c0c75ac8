"""
Runs a policy's program with standard input as it is. Argument: the file with the program. The modules that solutions
of contests use are imported before it, as LiveCodeBench does.
"""

import ast
import re
import sys

PRELUDE = """
from itertools import accumulate, chain, combinations, count, permutations, product, groupby, islice, repeat
from copy import deepcopy
from string import ascii_lowercase, ascii_uppercase
from math import floor, log2, log10, sqrt, comb, gcd, ceil, inf, isqrt, factorial, atan2, pi
from collections import defaultdict, deque, Counter
from bisect import bisect, bisect_left, bisect_right, insort
from heapq import heappush, heappop, heapify, merge, nlargest, nsmallest, heapreplace
from functools import reduce, cache, lru_cache, cmp_to_key, reduce
from random import randrange, shuffle
from operator import itemgetter, sub, xor, or_
from re import search as re_search
from os.path import commonprefix
from typing import List, Tuple, Dict, Set, Optional, Union, Any, Callable, Iterable, Iterator, Generator, Deque
import copy
import string
import math
import collections
import bisect
import heapq
import functools
import random
import itertools
import operator
import re
import datetime
from time import time
import numpy as np
import pandas as pd
from math import log, prod
from collections import deque, defaultdict, Counter, OrderedDict
from itertools import accumulate, permutations, combinations, product, groupby, islice, chain, repeat, zip_longest, cycle, pairwise
from functools import lru_cache, reduce, partial
from operator import iand
import sys
import io, os
"""


def prepared(namespace):
    for line in PRELUDE.strip().split("\n"):
        try:
            exec(line, namespace)
        except ImportError:
            pass
    return namespace


def compiled(source):
    try:
        return compile(source, "answer.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        # LiveCodeBench runs a program as a function's body, where it may return, and where its names are not global.
        if not re.search("'return' outside function|^no binding for nonlocal", str(error)):
            raise
    tree = ast.parse(source)
    function = ast.parse("def longhaul_program(): pass\nlonghaul_program()").body
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    function[0].body = [node for node in tree.body if node not in imports]
    tree.body = [*imports, *function]
    return compile(ast.fix_missing_locations(tree), "answer.py", "exec", dont_inherit=True)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        source = file.read()
    del sys.argv[1:]
    try:
        exec(compiled(source), prepared({"__name__": "__main__"}))
    except SystemExit:
        pass
