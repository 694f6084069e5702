"""Writes the Homebrew formula: ``python release/homebrew.py SDIST URL > kpybroker.rb``.

It is for a tap of one's own: the formula installs wheels of the dependencies, as pip chooses them.
"""

import hashlib
import sys
from pathlib import Path

PYTHON = "3.13"
FORMULA = """\
class Kpybroker < Formula
  desc "Apache Kafka broker in Python"
  homepage "{homepage}"
  url "{url}"
  sha256 "{checksum}"
  license "Apache-2.0"

  depends_on "python@{python}"

  def install
    system "python{python}", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install", "--prefer-binary", buildpath
    bin.install_symlink libexec/"bin/kpybroker"
    (var/"lib/kpybroker").mkpath
  end

  service do
    run [opt_bin/"kpybroker", "start", "--data", var/"lib/kpybroker"]
    keep_alive crashed: true
    log_path var/"log/kpybroker.log"
    error_log_path var/"log/kpybroker.log"
  end

  test do
    assert_match "kpybroker, version", shell_output("#{{bin}}/kpybroker --version")
  end
end
"""


def formula(sdist: Path, url: str) -> str:
    """The formula of a source distribution that is downloaded from a URL."""
    if not url.startswith("https://"):
        sys.exit(f"{url} is not an https URL")
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return FORMULA.format(homepage=url.rsplit("/", 1)[0], url=url, checksum=checksum, python=PYTHON)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python release/homebrew.py SDIST URL")
    print(formula(Path(sys.argv[1]), sys.argv[2]), end="")
