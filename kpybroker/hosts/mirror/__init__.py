"""This broker's part of mirrors of another cluster's topics. Imported only where ``kpybroker.mirrors`` names one."""
