import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;

/**
 * Prints, by lines, the numbers and booleans of a new object of each class that is named, and its
 * arrays of them; of classes behind a word "static" those that all their objects share.
 */
public final class Defaults {
    public static void main(String[] args) throws Exception {
        boolean shared = false;
        for (String name : args) {
            if (name.equals("static")) {
                shared = true;
                continue;
            }
            Class<?> type = Class.forName(name);
            Object made = shared ? null : type.getDeclaredConstructor().newInstance();
            for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
                for (Field field : each.getDeclaredFields()) {
                    if (isTold(field) && Modifier.isStatic(field.getModifiers()) == shared) {
                        field.setAccessible(true);
                        System.out.println(type.getSimpleName() + "\t" + field.getName() + "\t" + text(field.get(made)));
                    }
                }
            }
        }
        System.exit(0);
    }

    private static boolean isTold(Field field) {
        Class<?> kind = field.getType().isArray() ? field.getType().getComponentType() : field.getType();
        return kind.isPrimitive() && kind != char.class && !field.isSynthetic();
    }

    /** A number, a boolean or an array of them, as JSON has it. */
    private static String text(Object value) {
        if (value == null || !value.getClass().isArray()) {
            return String.valueOf(value);
        }
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < Array.getLength(value); i++) {
            texts.add(String.valueOf(Array.get(value, i)));
        }
        return texts.toString();
    }
}
