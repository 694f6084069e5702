"""This broker's part of the mirrors of topics of another cluster. Imported only where ``kpybroker.mirrors`` names one."""
