# The generated ros2_dynid.msg, .srv and .action may live in another folder of the same name (they do when the code
# runs from a checkout). Joining the folders here lets both be imported. Nothing else belongs in this file: in a colcon
# install the generated, empty __init__.py may take its place.
__path__ = __import__("pkgutil").extend_path(__path__, __name__)
