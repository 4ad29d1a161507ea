"""The gateway: the Open Inference Protocol on one side, the model on the other, and the guard between."""
