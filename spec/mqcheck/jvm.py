"""Java processes in which TLC runs, one run after another.

A run on a small model is mostly the start of Java. TLC keeps its state in static fields, so
each run gets classes of its own: a class loader, dropped with the run.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from mqcheck.watch import MODULE
from mqrules import UserError
from mqspec import toolchain

# One worker at a time: collectors of several threads take more of the processor than they save.
# TLC's classes are loaded for each run: their jar has its known sum, and to verify each class
# again is a fifth of a small run. Java keeps the classes of a run softly: unless told so, until
# there is no memory left.
THOROUGH = (
    *("-XX:+UseSerialGC", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
# Small models: the quick compiler takes half the time of the thorough one.
QUICK = (*THOROUGH, "-XX:TieredStopAtLevel=1", "-Xmx512m")
TRACES = ("-XX:+UseSerialGC", "-Xss64m")  # TLA+'s parser goes deep into a long sequence
# Of the memory, for the table of fingerprints, which TLC clears at the start of a run: of 1 GiB,
# enough for 2.5 million states; what is more goes to disk.
FINGERPRINTS = "0.02"
_EXPRESSION_COUNTERS = ("tlc2.tool.impl.Spec", "tlc2.value.impl.Value")


class Jvm:
    """One Java process, for one run at a time. It ends with ours."""

    def __init__(self, options: Sequence[str]) -> None:
        # Its working folder and its temporary one: TLC leaves files in both.
        self._folder = Path(tempfile.mkdtemp(prefix="mqcheck-"))
        port, self._process = launch_gateway(
            jarpath=find_jar_path(),
            javaopts=[*options, f"-Djava.io.tmpdir={self._folder}"],
            java_path=str(toolchain.java()),
            cwd=str(self._folder),
            die_on_exit=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        self._tlc_jar = toolchain.tlc_jar()

    def run_tlc(
        self,
        module: Path,
        extension: str,
        config: str,
        library: Sequence[Path],
        options: Sequence[str],
    ) -> tuple[int, str]:
        """The exit code and the output of `tlc2.TLC -tool` with a configuration.

        It is run on `module`, or on the text of a module that extends it.
        """
        # Names of Java's objects stand in cycles: Java keeps those of the last run until now.
        gc.collect(1)
        # TLC looks for a configuration beside the module or in the working folder only.
        (self._folder / "run.cfg").write_text(config, encoding="utf-8")
        output = self._folder / "output"
        arguments = ["-tool", "-workers", "1", "-metadir", str(self._folder / "states")]
        arguments += ["-fpmem", FINGERPRINTS]
        name = module.stem
        if extension:
            name = MODULE
            (self._folder / f"{MODULE}.tla").write_text(extension, encoding="utf-8")
        arguments += [*options, "-config", "run.cfg", name]
        folders = os.pathsep.join(map(str, (module.parent.resolve(), *library)))
        java = self._gateway.jvm.java
        java.lang.System.setProperty("TLA-Library", folders)
        stream = java.io.PrintStream(str(output))
        java.lang.System.setOut(stream)
        loader = self._class_loader()
        self._count_actions_only(loader)
        try:
            code = self._process_tlc(loader, arguments)
        except Py4JJavaError as error:
            # What TLC throws it could not explain; what it had said is in the output.
            return 255, f"{output.read_text(encoding='utf-8')}\n{error.java_exception}"
        finally:
            stream.close()
            self._let_go(loader)
            shutil.rmtree(self._folder / "states", ignore_errors=True)
        return code, output.read_text(encoding="utf-8")

    def close(self) -> None:
        """End the process, and take away what it left."""
        self._gateway.close()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _process_tlc(self, loader: Any, arguments: Sequence[str]) -> int:
        """What `TLC.main` does, less its `System.exit`."""
        words = self._array(self._gateway.jvm.java.lang.String, arguments)
        tlc_class = loader.loadClass("tlc2.TLC")
        tlc = tlc_class.getConstructor(self._classes()).newInstance(self._objects())
        parse = tlc_class.getMethod("handleParameters", self._classes(words.getClass()))
        if not parse.invoke(tlc, self._objects(words)):
            return 1
        said = tlc_class.getMethod("process", self._classes()).invoke(tlc, self._objects())
        status = loader.loadClass("tlc2.output.EC$ExitStatus")
        primitive = self._gateway.jvm.java.lang.Integer.TYPE
        translate = status.getMethod("errorConstantToExitStatus", self._classes(primitive))
        code: int = translate.invoke(None, self._objects(said))
        return code

    def _count_actions_only(self, loader: Any) -> None:
        """With -coverage, have TLC count for each action, and not for each expression.

        Counting expressions takes as long as the search itself. These classes look whether
        there is coverage when they are loaded; the ones that count for actions do so later.
        """
        for name in _EXPRESSION_COUNTERS:
            # A TLC that has no such class counts as it likes.
            with suppress(Py4JJavaError):
                self._gateway.jvm.java.lang.Class.forName(name, True, loader)

    def _let_go(self, loader: Any) -> None:
        """TLC exports the table of its fingerprints by RMI, which then keeps what reaches it.

        That is all that a run had loaded and found, unless its static field lets the table go.
        """
        with suppress(Py4JJavaError):  # of another TLC
            loader.loadClass("tlc2.TLCGlobals").getField("mainChecker").set(None, None)
        loader.close()

    def _class_loader(self) -> Any:
        java = self._gateway.jvm.java
        url = java.io.File(str(self._tlc_jar)).toURI().toURL()
        platform = java.lang.ClassLoader.getPlatformClassLoader()
        return java.net.URLClassLoader(self._array(java.net.URL, [url]), platform)

    def _classes(self, *classes: Any) -> Any:
        return self._array(self._gateway.jvm.java.lang.Class, classes)

    def _objects(self, *objects: Any) -> Any:
        return self._array(self._gateway.jvm.java.lang.Object, objects)

    def _array(self, kind: Any, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(items))
        for position, item in enumerate(items):
            array[position] = item
        return array


_idle: dict[tuple[str, ...], list[Jvm]] = {QUICK: [], THOROUGH: [], TRACES: []}
_lock = Lock()


def run_tlc_in_jvm(
    module: Path,
    extension: str,
    config: str,
    library: Sequence[Path],
    options: Sequence[str],
    java_options: tuple[str, ...],
) -> tuple[int, str]:
    """Run TLC in an idle Java process, or in a new one; safe from several threads at once.

    Raises UserError where Java cannot be started, or ends.
    """
    with _lock:
        jvm = _idle[java_options].pop() if _idle[java_options] else None
    try:
        jvm = jvm or Jvm(java_options)
        result = jvm.run_tlc(module, extension, config, library, options)
    except (Py4JError, OSError) as error:
        if jvm:
            jvm.close()  # it died, of too little memory say: nobody should get it again
        why = f"Java ended under TLC: {error}"
        raise UserError(module.stem, why, "look at its memory, or check less at once") from None
    with _lock:
        _idle[java_options].append(jvm)
    return result


@atexit.register
def _close_all() -> None:
    for jvms in _idle.values():
        while jvms:
            jvms.pop().close()
