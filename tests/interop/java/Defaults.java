import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;

/** Prints the numbers and booleans of a new object of each class that is named, and its arrays of them, by lines. */
public final class Defaults {
    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Class<?> type = Class.forName(name);
            Object made = type.getDeclaredConstructor().newInstance();
            for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
                for (Field field : each.getDeclaredFields()) {
                    Class<?> kind = field.getType().isArray() ? field.getType().getComponentType() : field.getType();
                    if (kind.isPrimitive() && !Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        System.out.println(type.getSimpleName() + "\t" + field.getName() + "\t" + text(field.get(made)));
                    }
                }
            }
        }
        System.exit(0);
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
