import java.lang.reflect.Field;
import java.lang.reflect.Modifier;

/** Prints the numbers and booleans of a new object of each class that is named, by lines. */
public final class Defaults {
    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Class<?> type = Class.forName(name);
            Object made = type.getDeclaredConstructor().newInstance();
            for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
                for (Field field : each.getDeclaredFields()) {
                    if (field.getType().isPrimitive() && !Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        System.out.println(type.getSimpleName() + "\t" + field.getName() + "\t" + field.get(made));
                    }
                }
            }
        }
        System.exit(0);
    }
}
