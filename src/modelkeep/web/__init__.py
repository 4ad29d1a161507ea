"""The local web application: the open model, its runs, its forms and its views, in a browser on this machine."""
