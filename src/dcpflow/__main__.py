"""``python -m dcpflow``."""

from dcpflow.cli import main

raise SystemExit(main())
