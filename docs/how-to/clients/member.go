// The Go client under test: member NAMESERVER TOPIC GROUP MODE ID.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var failed sync.Map // keys

func main() {
	rlog.SetLogLevel("error")
	nameserver, topic, group, mode, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	switch mode {
	case "consume", "orderly":
	case "produce":
		go produce(nameserver, topic, group)
		<-stopped
		return
	default:
		os.Exit(64)
	}

	member, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{nameserver}),
		consumer.WithGroupName(group),
		consumer.WithInstance(id),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(mode == "orderly"),
	)
	check(err)
	wanted := consumer.MessageSelector{Type: consumer.TAG, Expression: "a || AaAa"}
	check(member.Subscribe(topic, wanted,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return result(messages[0], mode == "orderly"), nil
		}))
	check(member.Start())
	<-stopped
	check(member.Shutdown())
}

// Prints the key, and does what the body says.
func result(message *primitive.MessageExt, orderly bool) consumer.ConsumeResult {
	fmt.Println(message.GetKeys())
	switch string(message.Body) {
	case "stays":
		select {}
	case "slow":
		time.Sleep(15 * time.Second)
	case "fails":
		if _, again := failed.LoadOrStore(message.GetKeys(), true); !again {
			if orderly {
				return consumer.SuspendCurrentQueueAMoment
			}
			return consumer.ConsumeRetryLater
		}
	}
	return consumer.ConsumeSuccess
}

func produce(nameserver, topic, group string) {
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{nameserver}),
		producer.WithGroupName(group),
		producer.WithRetry(2),
	)
	check(err)
	check(sender.Start())
	for number := 0; ; number++ {
		key := fmt.Sprintf("%s-%d", topic, number)
		message := primitive.NewMessage(topic, []byte("takes")).WithTag("a").WithKeys([]string{key})
		result, err := sender.SendSync(context.Background(), message)
		if err != nil || result.Status != primitive.SendOK {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		fmt.Println(key)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
