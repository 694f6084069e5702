import java.io.File;
import java.io.IOException;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Prints every class with a main method in the jars whose paths are the arguments. */
public final class ToolsList {
    public static void main(String[] jars) throws IOException {
        TreeSet<String> found = new TreeSet<>();
        for (String path : jars) {
            try (JarFile jar = new JarFile(new File(path))) {
                jar.stream().map(JarEntry::getName).filter(name -> name.endsWith(".class") && !name.contains("$"))
                    .map(name -> name.substring(0, name.length() - ".class".length()).replace('/', '.'))
                    .filter(ToolsList::isTool).forEach(found::add);
            }
        }
        found.forEach(System.out::println);
    }

    private static boolean isTool(String name) {
        try {
            Class.forName(name, false, ToolsList.class.getClassLoader()).getMethod("main", String[].class);
            return true;
        } catch (ReflectiveOperationException | LinkageError none) {
            return false;
        }
    }
}
