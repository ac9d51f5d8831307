import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin for each line of standard input, words apart by tabs; a line `done` ends each output. */
public class Admin {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            MQAdminStartup.main0(line.split("\t"), null);
            System.out.println("\ndone");
        }
        System.exit(0);
    }
}
