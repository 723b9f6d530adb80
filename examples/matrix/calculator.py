# SPDX-License-Identifier: Apache-2.0
"""The program under test: a calculator with units, variables and a few functions."""

UNITS = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0}


class CalculatorError(Exception):
    """An expression that cannot be evaluated."""


def tokens(text):
    found = []
    place = 0
    while place < len(text):
        char = text[place]
        if char.isspace():
            place += 1
        elif char.isdigit() or char == ".":
            end = place
            while end < len(text) and (text[end].isdigit() or text[end] == "."):
                end += 1
            if text[place:end].count(".") > 1:
                raise CalculatorError("two points in " + text[place:end])
            found.append(("number", float(text[place:end])))
            place = end
        elif char.isalpha():
            end = place
            while end < len(text) and text[end].isalnum():
                end += 1
            found.append(("name", text[place:end]))
            place = end
        elif char in "+-*/^(),=%":
            found.append(("sign", char))
            place += 1
        else:
            raise CalculatorError("unexpected " + char)
    return found


class Calculator:
    def __init__(self):
        self.variables = {"pi": 3.14159}
        self.history = []

    def run(self, text):
        self.left = tokens(text)
        if not self.left:
            raise CalculatorError("nothing to do")
        if len(self.left) > 2 and self.left[0][0] == "name" and self.left[1] == ("sign", "="):
            name = self.left[0][1]
            if name == "pi":
                raise CalculatorError("pi is fixed")
            self.left = self.left[2:]
            self.variables[name] = self.sum()
            value = self.variables[name]
        else:
            value = self.sum()
        if self.left:
            raise CalculatorError("left over: " + str(self.left[0][1]))
        self.history.append(value)
        return round(value, 6)

    def take(self, sign):
        if self.left and self.left[0] == ("sign", sign):
            self.left.pop(0)
            return True
        return False

    def sum(self):
        value = self.product()
        while True:
            if self.take("+"):
                value = value + self.product()
            elif self.take("-"):
                value = value - self.product()
            else:
                return value

    def product(self):
        value = self.power()
        while True:
            if self.take("*"):
                value = value * self.power()
            elif self.take("/"):
                divisor = self.power()
                if divisor == 0:
                    raise CalculatorError("division by zero")
                value = value / divisor
            else:
                return value

    def power(self):
        base = self.atom()
        if self.take("^"):
            exponent = self.power()
            if abs(exponent) > 100:
                raise CalculatorError("exponent too large")
            return base**exponent
        return base

    def atom(self):
        if self.take("-"):
            return -self.atom()
        if self.take("("):
            value = self.sum()
            if not self.take(")"):
                raise CalculatorError("missing )")
            return value
        if not self.left:
            raise CalculatorError("unexpected end")
        kind, value = self.left.pop(0)
        if kind == "number":
            return self.suffix(value)
        if kind == "name":
            return self.named(value)
        raise CalculatorError("unexpected " + value)

    def suffix(self, value):
        if self.take("%"):
            return value / 100
        if self.left and self.left[0][0] == "name" and self.left[0][1] in UNITS:
            unit = self.left.pop(0)[1]
            return value * UNITS[unit]
        return value

    def named(self, name):
        if self.take("("):
            values = [self.sum()]
            while self.take(","):
                values.append(self.sum())
            if not self.take(")"):
                raise CalculatorError("missing )")
            return self.call(name, values)
        if name == "last":
            if len(self.history) < 1:
                raise CalculatorError("no history")
            return self.history[-1]
        if name not in self.variables:
            raise CalculatorError("unknown " + name)
        return self.variables[name]

    def call(self, name, values):
        if name == "min":
            return min(values)
        if name == "max":
            return max(values)
        if name == "mean":
            return sum(values) / len(values)
        if name == "abs" and len(values) == 1:
            return values[0] if values[0] >= 0 else -values[0]
        if name == "sqrt" and len(values) == 1:
            if values[0] < 0:
                raise CalculatorError("root of a negative")
            return values[0] ** 0.5
        if name == "clamp" and len(values) == 3:
            low, value, high = values
            if low > high:
                raise CalculatorError("empty range")
            if value < low:
                return low
            if value > high:
                return high
            return value
        raise CalculatorError("unknown function " + name)
