"""From base parameters to physical ones.

`essential` drops parameters that the data do not support; `standard` finds the standard parameters closest to a priori
ones; `consistency` tests whether links could exist, and finds those that can.
"""

from ros2_dynid.identification.physical.consistency import Consistent, consistent_links, impose, made_consistent
from ros2_dynid.identification.physical.essential import Essential, essential, significance
from ros2_dynid.identification.physical.standard import closest, full_map

__all__ = [
    "Consistent",
    "Essential",
    "closest",
    "consistent_links",
    "essential",
    "full_map",
    "impose",
    "made_consistent",
    "significance",
]
